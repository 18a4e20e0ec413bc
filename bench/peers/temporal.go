package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.temporal.io/server/temporal"
)

const (
	temporalQueue = "calls"

	activityCall = "call"
	workflowCall = "call"
	workflowRun  = "run"

	// A run's workflow makes its calls in steps, so that one workflow task
	// schedules many activities.
	runSteps = 10
	runWidth = 10
)

// temporalForm is how a call is expressed.
type temporalForm int

const (
	callActivities temporalForm = iota // one workflow a run, with an activity for each of its calls
	callWorkflows                      // one workflow a call, with one activity
	callStandalone                     // one activity a call, in no workflow
)

// temporalPeer is Temporal's server with one worker and one client. Its tools
// run at most once: a retry of Temporal's would run them again.
type temporalPeer struct {
	ledger *ledger
	form   temporalForm
	server temporal.Server
	client client.Client
	worker worker.Worker
}

func openTemporal(ctx context.Context, dir string, l *ledger, form temporalForm) (peer, error) {
	t := &temporalPeer{ledger: l, form: form}
	server, address, err := startTemporal(dir)
	if err != nil {
		return nil, err
	}
	t.server = server
	t.client, err = client.DialContext(ctx, client.Options{
		HostPort: address, Namespace: temporalNamespace,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("temporal: connect: %w", err), t.close(ctx))
	}
	pollers := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{})
	w := worker.New(t.client, temporalQueue, worker.Options{
		WorkflowTaskPollerBehavior: pollers, ActivityTaskPollerBehavior: pollers,
	})
	w.RegisterActivityWithOptions(t.call, activity.RegisterOptions{Name: activityCall})
	w.RegisterWorkflowWithOptions(callInWorkflow, workflow.RegisterOptions{Name: workflowCall})
	w.RegisterWorkflowWithOptions(t.run, workflow.RegisterOptions{Name: workflowRun})
	if err := w.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("temporal: start the worker: %w", err), t.close(ctx))
	}
	t.worker = w
	return t, nil
}

// call is the activity: the tool of one call.
func (t *temporalPeer) call(_ context.Context, data []byte) ([]byte, error) {
	i, err := decide(data)
	if err != nil {
		return nil, sdk.NewNonRetryableApplicationError(err.Error(), "INVALID", err)
	}
	if err := t.ledger.execute(i.Call); err != nil {
		return nil, err
	}
	return runTool(), nil
}

func inActivity(ctx workflow.Context, data []byte) workflow.Future {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: callTimeout, RetryPolicy: &sdk.RetryPolicy{MaximumAttempts: 1},
	})
	return workflow.ExecuteActivity(ctx, activityCall, data)
}

// callInWorkflow is the workflow of one call.
func callInWorkflow(ctx workflow.Context, data []byte) ([]byte, error) {
	var result []byte
	err := inActivity(ctx, data).Get(ctx, &result)
	return result, err
}

// run is the workflow of one run, with the calls from first on. The times that
// it notes are the worker's, and noted when code runs for the first time only,
// so they change nothing in the workflow.
func (t *temporalPeer) run(ctx workflow.Context, first int) error {
	for range runSteps {
		var results [runWidth]workflow.Future
		for i := range results {
			if !workflow.IsReplaying(ctx) {
				if err := t.ledger.leave(first + i); err != nil {
					return err
				}
			}
			results[i] = inActivity(ctx, encodeIntent(first+i))
		}
		for i, future := range results {
			var result []byte
			if err := future.Get(ctx, &result); err != nil {
				return err
			}
			if workflow.IsReplaying(ctx) {
				continue
			}
			if err := t.ledger.settle(first + i); err != nil {
				return err
			}
		}
		first += runWidth
	}
	return nil
}

func (t *temporalPeer) take(ctx context.Context) error {
	switch t.form {
	case callWorkflows:
		call, _ := t.ledger.intend()
		return t.asWorkflow(ctx, call)
	case callStandalone:
		call, _ := t.ledger.intend()
		return t.asActivity(ctx, call)
	default:
		return t.takeRun(ctx)
	}
}

func (t *temporalPeer) takeRun(ctx context.Context) error {
	first := t.ledger.reserve(runSteps * runWidth)
	run, err := t.client.ExecuteWorkflow(ctx, workflowOptions(fmt.Sprintf("run-%d", first)), workflowRun, first)
	if err != nil {
		return err
	}
	return run.Get(ctx, nil)
}

func (t *temporalPeer) asWorkflow(ctx context.Context, call int) error {
	run, err := t.client.ExecuteWorkflow(ctx, workflowOptions("call-"+callID(call)), workflowCall, encodeIntent(call))
	if err != nil {
		return err
	}
	var result []byte
	if err := run.Get(ctx, &result); err != nil {
		return err
	}
	return t.ledger.settle(call)
}

func workflowOptions(id string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: id, TaskQueue: temporalQueue, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}
}

func (t *temporalPeer) asActivity(ctx context.Context, call int) error {
	handle, err := t.client.ExecuteActivity(ctx, client.StartActivityOptions{
		ID: callID(call), TaskQueue: temporalQueue, StartToCloseTimeout: callTimeout,
		ActivityIDReusePolicy: enums.ACTIVITY_ID_REUSE_POLICY_REJECT_DUPLICATE,
		RetryPolicy:           &sdk.RetryPolicy{MaximumAttempts: 1},
	}, activityCall, encodeIntent(call))
	if err != nil {
		return err
	}
	var result []byte
	if err := handle.Get(ctx, &result); err != nil {
		return err
	}
	return t.ledger.settle(call)
}

func (t *temporalPeer) completed(ctx context.Context) (int, error) {
	const query = `ExecutionStatus = "Completed"`
	if t.form == callStandalone {
		count, err := t.client.CountActivities(ctx, client.CountActivitiesOptions{Query: query})
		if err != nil {
			return 0, err
		}
		return int(count.Count), nil
	}
	count, err := t.client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: query})
	if err != nil {
		return 0, err
	}
	if t.form == callActivities {
		return int(count.GetCount()) * runSteps * runWidth, nil
	}
	return int(count.GetCount()), nil
}

func (t *temporalPeer) close(context.Context) error {
	if t.worker != nil {
		t.worker.Stop()
	}
	if t.client != nil {
		t.client.Close()
	}
	return t.server.Stop()
}
