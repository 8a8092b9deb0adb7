package sandbox_test

const childEnv = "PAWL_SANDBOX_CHILD"

func serveChild() int { return 0 }
