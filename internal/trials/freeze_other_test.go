//go:build !unix

package trials

import "errors"

func (*process) freeze() error { return errors.ErrUnsupported }

func (*process) thaw() error { return errors.ErrUnsupported }
