// A stage in Go, for tests: rank is twice the price. Its server is grpc-go's, with its health service.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	v1 "stage/v1"
)

type stage struct {
	v1.UnimplementedStageServiceServer
}

type listing struct {
	Title string `json:"title"`
	Price int    `json:"price"`
}

func (stage) Describe(_ context.Context, r *v1.DescribeRequest) (*v1.DescribeResponse, error) {
	if r.Kind != "listing" || r.Stage != "rank" {
		return nil, status.Errorf(codes.Unimplemented, "no stage %s/%s here", r.Kind, r.Stage)
	}
	return &v1.DescribeResponse{Asks: true, Hears: true, Schema: 1}, nil
}

func (stage) ShouldProcess(_ context.Context, r *v1.ShouldProcessRequest) (*v1.ShouldProcessResponse, error) {
	found := &v1.ShouldProcessResponse{}
	for _, item := range r.Items {
		var l listing
		_ = json.Unmarshal([]byte(item.Entity.GetJson()), &l)
		wanted := l.Title != "unwanted"
		found.Verdicts = append(found.Verdicts, &v1.Verdict{Id: item.Id, Answer: &v1.Verdict_Wanted{Wanted: wanted}})
	}
	return found, nil
}

func (stage) Process(_ context.Context, r *v1.ProcessRequest) (*v1.ProcessResponse, error) {
	var ids []string
	found := &v1.ProcessResponse{}
	for _, item := range r.Items {
		ids = append(ids, item.Id)
	}
	fmt.Println("Process", strings.Join(ids, " "))
	for _, item := range r.Items {
		var l listing
		if err := json.Unmarshal([]byte(item.Entity.GetJson()), &l); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		if l.Title == "panic" {
			panic("what a handler does not catch ends a Go process")
		}
		patch := &v1.Body{Form: &v1.Body_Json{Json: fmt.Sprintf(`{"rank": %d}`, 2*l.Price)}}
		update := &v1.Update{Change: &v1.Update_Patch{Patch: patch}}
		found.Outcomes = append(found.Outcomes, &v1.Outcome{Id: item.Id, Result: &v1.Outcome_Update{Update: update}})
	}
	return found, nil
}

func (stage) Saved(_ context.Context, r *v1.SavedRequest) (*v1.SavedResponse, error) {
	found := &v1.SavedResponse{}
	for _, entity := range r.Entities {
		var last int64
		for _, event := range entity.Events {
			fmt.Println("heard", entity.Id, event.Number)
			last = event.Number
		}
		found.Heard = append(found.Heard, &v1.Heard{Id: entity.Id, Number: last})
	}
	return found, nil
}

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	v1.RegisterStageServiceServer(server, stage{})
	healthpb.RegisterHealthServer(server, health.NewServer())
	fmt.Println("serves", listener.Addr().(*net.TCPAddr).Port)
	if err := server.Serve(listener); err != nil {
		panic(err)
	}
}
