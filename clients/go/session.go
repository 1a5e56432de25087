package antares

import (
	"context"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/antares-vm/antares/clients/go/antaresv1"
)

// Transactions of a session that wait for their answers.
const waitingMax = 256

type session struct {
	client *Client
	start  *antaresv1.VerifySessionRequest
	// nil behind the last transaction.
	source  <-chan []byte
	next    uint64
	waiting map[uint64]*antaresv1.VerifySessionRequest
	tried   map[uint64]int
}

// VerifySession verifies transactions in ckb-debugger's JSON as they come, until the channel is closed. The id of an answer is the place
// of its transaction; answers are in any order, and have a verdict or an error of that transaction alone. No more transactions are
// taken than have room on the server. A session that is lost goes on with another server. options may be nil, or have everything but
// cells and headers.
func (client *Client) VerifySession(
	ctx context.Context, transactions <-chan []byte, options *antaresv1.VerifyShared,
) iter.Seq2[*antaresv1.SharedTransactionResult, error] {
	shared := &antaresv1.VerifyShared{}
	if options != nil {
		shared = proto.Clone(options).(*antaresv1.VerifyShared)
	}
	start := &antaresv1.VerifySessionRequest{Message: &antaresv1.VerifySessionRequest_Start{Start: shared}}
	return func(yield func(*antaresv1.SharedTransactionResult, error) bool) {
		session := &session{
			client: client, start: start, source: transactions,
			waiting: map[uint64]*antaresv1.VerifySessionRequest{}, tried: map[uint64]int{},
		}
		for attempt := 1; ; attempt++ {
			answered, err := session.part(ctx, yield)
			if err == nil {
				return
			}
			refused := refusedBy(err)
			if answered > 0 {
				attempt = 1
			}
			isOver := answered > 0 && (refused.Reason == "SESSION_IDLE" || refused.Code == codes.DeadlineExceeded)
			if !isOver && !refused.isPassing || attempt == attemptsMax || ctx.Err() != nil {
				yield(nil, refused)
				return
			}
			select {
			case <-time.After(refused.delay + spread(attempt)):
			case <-ctx.Done():
			}
		}
	}
}

// part is what one server does of a session: everything that waits is sent again, then what comes.
func (session *session) part(
	ctx context.Context, yield func(*antaresv1.SharedTransactionResult, error) bool,
) (answered int, err error) {
	// A server is asked when there is something to ask.
	if len(session.waiting) == 0 {
		select {
		case json, isOpen := <-session.source:
			session.take(json, isOpen)
		case <-ctx.Done():
			return 0, status.FromContextError(ctx.Err()).Err()
		}
	}
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, session.client.metadata...), deadlineDefault)
	defer cancel()
	stream, err := session.client.Runner.VerifySession(ctx)
	if err != nil {
		return 0, err
	}
	outgoing, incoming := make(chan *antaresv1.VerifySessionRequest, waitingMax+1), make(chan received)
	go sendAll(ctx, stream, outgoing)
	go receiveAll(ctx, stream, incoming)
	outgoing <- session.start
	for _, request := range session.waiting {
		outgoing <- request
	}
	for session.source != nil || len(session.waiting) > 0 {
		source := session.source
		if len(session.waiting) == waitingMax {
			source = nil
		}
		select {
		case json, isOpen := <-source:
			if request := session.take(json, isOpen); request != nil {
				send(ctx, outgoing, request)
			}
		case received := <-incoming:
			if received.err == io.EOF {
				received.err = status.Error(codes.Unavailable, "the session ended early")
			}
			if received.err != nil {
				return answered, received.err
			}
			result := received.answer.GetResult()
			if result == nil || session.again(ctx, result, outgoing) {
				continue
			}
			answered++
			delete(session.waiting, result.Id)
			if !yield(result, nil) {
				return answered, nil
			}
		}
	}
	return answered, nil
}

// take notes a transaction of the caller's.
func (session *session) take(json []byte, isOpen bool) *antaresv1.VerifySessionRequest {
	if !isOpen {
		session.source = nil
		return nil
	}
	transaction := &antaresv1.SharedTransaction{
		Id: session.next, Transaction: &antaresv1.SharedTransaction_MockJson{MockJson: json},
	}
	request := &antaresv1.VerifySessionRequest{Message: &antaresv1.VerifySessionRequest_Transaction{Transaction: transaction}}
	session.waiting[session.next] = request
	session.next++
	return request
}

// again tells whether a result is none: it passes and is sent again after its delay, or was given back.
func (session *session) again(
	ctx context.Context, result *antaresv1.SharedTransactionResult, outgoing chan<- *antaresv1.VerifySessionRequest,
) bool {
	failure := result.GetError()
	if failure.GetReason() == "CALL_DEADLINE" {
		return true
	}
	if failure == nil || failure.RetryAfterMs == nil || session.tried[result.Id]+1 >= attemptsMax {
		return false
	}
	session.tried[result.Id]++
	request := session.waiting[result.Id]
	delay := time.Duration(failure.GetRetryAfterMs())*time.Millisecond + spread(session.tried[result.Id])
	time.AfterFunc(delay, func() { send(ctx, outgoing, request) })
	return true
}

type received struct {
	answer *antaresv1.VerifySessionResponse
	err    error
}

func send(ctx context.Context, outgoing chan<- *antaresv1.VerifySessionRequest, request *antaresv1.VerifySessionRequest) {
	select {
	case outgoing <- request:
	case <-ctx.Done():
	}
}

func sendAll(ctx context.Context, stream antaresv1.RunnerService_VerifySessionClient, outgoing <-chan *antaresv1.VerifySessionRequest) {
	for {
		select {
		case request := <-outgoing:
			// What is wrong is received.
			if stream.Send(request) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func receiveAll(ctx context.Context, stream antaresv1.RunnerService_VerifySessionClient, incoming chan<- received) {
	for {
		answer, err := stream.Recv()
		select {
		case incoming <- received{answer, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// spread is how much longer a client waits than others.
func spread(attempt int) time.Duration { return rand.N(min(pauseMin<<attempt, pauseMax)) }
