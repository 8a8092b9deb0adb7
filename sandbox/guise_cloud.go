package sandbox

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"
)

// cloudGuises are operations of AWS. Signatures are taken and not checked.
func cloudGuises() []*guise {
	target := func(name string) func(*http.Request, []byte) bool {
		return func(r *http.Request, _ []byte) bool { return r.Header.Get("X-Amz-Target") == name }
	}
	action := func(name string) func(*http.Request, []byte) bool {
		return func(_ *http.Request, body []byte) bool {
			fields, err := fieldsOfForm(body)
			return err == nil && textOf(fields, "Action") == name
		}
	}
	return []*guise{
		{
			name: "aws/ec2.RunInstances", base: "/as/aws/ec2", method: "POST", path: "/{$}", asks: action("RunInstances"), form: true, prefix: "i",
			mode: keys(func(m *Mode) { m.Carrier, m.Name = CarrierBody, "ClientToken" }), failed: ec2Failed,
			done: func(o *played) reply {
				return reply{status: 200, text: "<RunInstancesResponse><instancesSet>" + ec2Instance(o) + "</instancesSet></RunInstancesResponse>"}
			},
			reads: []guiseRead{{
				method: "POST", path: "/{$}", asks: action("DescribeInstances"),
				terms: func(q *guiseQuery) []term { return []term{{"key", textOf(q.fields, "Filter.1.Value.1")}} },
				shows: func(found []*played, more bool) reply {
					var b strings.Builder
					b.WriteString("<DescribeInstancesResponse><reservationSet>")
					for _, o := range found {
						b.WriteString(ec2Instance(o))
					}
					b.WriteString("</reservationSet>")
					if more {
						b.WriteString("<nextToken>next</nextToken>")
					}
					b.WriteString("</DescribeInstancesResponse>")
					return reply{status: 200, text: b.String()}
				},
			}},
		},
		{
			name: "aws/sqs.SendMessage.fifo", base: "/as/aws/sqs", method: "POST", path: "/{$}", asks: target("AmazonSQS.SendMessage"), prefix: "m",
			mode: keys(func(m *Mode) {
				m.Carrier, m.Name, m.Retention, m.OnMismatch, m.OnInFlight = CarrierBody, "MessageDeduplicationId", 5*time.Minute, OnMismatchIgnore, OnInFlightWait
			}),
			failed: awsFailed("com.amazonaws.sqs", "InvalidMessageContents"),
			done: func(o *played) reply {
				return reply{status: 200, body: map[string]any{"MessageId": o.ID, "SequenceNumber": "18849496460467696128"}}
			},
		},
		{
			name: "aws/stepfunctions.StartExecution", base: "/as/aws/stepfunctions", method: "POST", path: "/{$}",
			asks: target("AWSStepFunctions.StartExecution"), prefix: "execution",
			mode: keys(func(m *Mode) {
				m.Carrier, m.Name, m.Retention, m.OnMismatch = CarrierBody, "name", 90*24*time.Hour, OnMismatch409
			}),
			failed: awsFailed("com.amazonaws.swf.service.v2.model", "InvalidExecutionInput"),
			done:   func(o *played) reply { return reply{status: 200, body: sfnExecution(o)} },
			reads: []guiseRead{{
				method: "POST", path: "/{$}", asks: target("AWSStepFunctions.DescribeExecution"),
				terms: func(q *guiseQuery) []term {
					arn := textOf(q.fields, "executionArn")
					return []term{{"key", arn[strings.LastIndexByte(arn, ':')+1:]}}
				},
				shows: func(found []*played, _ bool) reply {
					if len(found) == 0 {
						return awsFailed("com.amazonaws.swf.service.v2.model", "ExecutionDoesNotExist")(failing{status: 400})
					}
					return reply{status: 200, body: sfnExecution(found[0])}
				},
			}},
		},
	}
}

func ec2Instance(o *played) string {
	return fmt.Sprintf("<item><instanceId>%s</instanceId><imageId>%s</imageId><clientToken>%s</clientToken></item>",
		o.ID, html.EscapeString(o.text("ImageId")), html.EscapeString(o.Key))
}

func ec2Failed(f failing) reply {
	status, code := f.status, "InternalError"
	switch {
	case f.code == "declined":
		status, code = 400, "InvalidParameterValue"
	case f.code == "key_mismatch":
		status, code = 400, "IdempotentParameterMismatch"
	case f.code == "key_in_flight":
		status, code = 503, "Unavailable"
	case f.status == 401, f.status == 403:
		code = "AuthFailure"
	case f.status == 429:
		status, code = 503, "RequestLimitExceeded"
	case f.status < 500:
		status, code = 400, "InvalidParameterValue"
	}
	return reply{status: status, text: "<Response><Errors><Error><Code>" + code + "</Code><Message>" + html.EscapeString(f.message) + "</Message></Error></Errors></Response>"}
}

// awsFailed is the failure of a service that speaks JSON; refused is the name of a refusal.
func awsFailed(model, refused string) func(failing) reply {
	return func(f failing) reply {
		status, name := 400, refused
		switch {
		case f.code == "key_mismatch", f.code == "key_conflict", f.code == "key_in_flight":
			name = "ExecutionAlreadyExists"
		case f.status == 429:
			name = "ThrottlingException"
			if model == "com.amazonaws.sqs" {
				name = "RequestThrottled"
			}
		case f.status >= 500:
			status, name = f.status, "InternalFailure"
		}
		return reply{status: status, body: map[string]any{"__type": model + "#" + name, "message": f.message}}
	}
}

func sfnExecution(o *played) map[string]any {
	machine := strings.Replace(o.text("stateMachineArn"), ":stateMachine:", ":execution:", 1)
	return map[string]any{"executionArn": machine + ":" + o.Key, "name": o.Key, "status": "RUNNING", "startDate": o.CreatedAt.Unix()}
}
