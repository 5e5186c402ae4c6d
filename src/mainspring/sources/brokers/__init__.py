"""Clients of brokers: one for a source in a worker, however many partitions it reads.

kafka.py    partitions of a topic of Kafka (`mainspring[kafka]`)
nats.py     filters of a stream of NATS JetStream (`mainspring[nats]`)
"""
