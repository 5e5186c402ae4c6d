"""Clients of brokers: one for a source in a worker, however many partitions it reads.

kafka.py    partitions of a topic of Kafka (`mainspring[kafka]`)
kafka_reading.py    the consumer that a client of Kafka has, in a thread
nats.py     filters of a stream of NATS JetStream (`mainspring[nats]`)
"""
