module stage

go 1.24

require (
	google.golang.org/grpc v1.76.0
	google.golang.org/protobuf v1.36.10
)
