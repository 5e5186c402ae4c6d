"""A listing as a protobuf message, made without a compiler: what a team would generate."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto


def _message() -> type:
    file = descriptor_pb2.FileDescriptorProto(name="listing.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Listing")
    for number, (name, type_) in enumerate(
        [
            ("id", _FIELD.TYPE_INT64),
            ("title", _FIELD.TYPE_STRING),
            ("price", _FIELD.TYPE_INT64),
            ("rank", _FIELD.TYPE_INT64),
            ("hits", _FIELD.TYPE_INT32),
        ],
        1,
    ):
        message.field.add(name=name, number=number, type=type_, label=_FIELD.LABEL_OPTIONAL)
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Listing"))


Listing = _message()
