"""A real Kafka broker for tests: one node, KRaft, of the artifacts that Maven has under Kafka's name.

They are fetched once, into a directory of the user's cache. Where Java or Maven are not there, or Maven
cannot reach a repository, tests that need a real broker are skipped by name.
"""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokers import free_port, records

VERSION = "3.9.1"
UP_SECONDS = 60
FETCH_SECONDS = 300

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>mainspring</groupId><artifactId>test-broker</artifactId>
<version>1</version><packaging>pom</packaging><dependencies><dependency><groupId>org.apache.kafka</groupId>
<artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency></dependencies></project>
"""
_JAVA = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
)


@cache
def classes() -> tuple[Path | None, str]:
    """Where the broker's classes are; or None, and why not."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            return None, f"{program} is not there"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainspring-tests"
    found = home / f"kafka-{VERSION}"
    if found.is_dir():
        return found, ""
    home.mkdir(parents=True, exist_ok=True)
    # Two that fetch at once share Maven's own cache: one would copy what the other still writes.
    with (home / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=home) as name:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found.is_dir():
            return found, ""
        (place := Path(name) / "lib").mkdir()
        (Path(name) / "pom.xml").write_text(_POM)
        order = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        try:
            done = subprocess.run(
                [*order, f"-DoutputDirectory={place}"],
                cwd=name,
                capture_output=True,
                timeout=FETCH_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return None, f"Maven did not fetch Kafka within {FETCH_SECONDS} s"
        if done.returncode != 0:
            return None, "Maven cannot fetch org.apache.kafka:kafka_2.13"
        place.rename(found)
    return found, ""


class KafkaBroker:
    """A broker that can be killed and started again on the same data."""

    def __init__(self, home: Path) -> None:
        lib, why = classes()
        assert lib is not None, why
        self._classes = f"{lib}/*"
        home.mkdir(parents=True, exist_ok=True)
        self._home = home
        self._properties = home / "server.properties"
        self.port, controller = free_port(), free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": home / "data",
            "num.partitions": 4,
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.cleaner.backoff.ms": 200,
            "log.retention.check.interval.ms": 200,
            "log.initial.task.delay.ms": 100,
        }
        self._properties.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        # One that began with "-" would be read as an option.
        cluster = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        self._run("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties))

    def _java(self, *rest: str) -> list[str]:
        return ["java", *_JAVA, "-cp", self._classes, *rest]

    def _run(self, *rest: str) -> None:
        subprocess.run(self._java(*rest), check=True, capture_output=True, timeout=UP_SECONDS)

    def start(self) -> None:
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)), stdout=log, stderr=log
            )
        looker = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        deadline = time.monotonic() + UP_SECONDS
        while True:
            try:
                if looker.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                assert time.monotonic() < deadline, "the Kafka broker did not come up"

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def make(
        self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic."""
        new = NewTopic(topic, partitions, 1, config=dict(settings or {}))
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        admin.create_topics([new])[topic].result(30)

    def drop_before(self, topic: str, partition: int, offset: int) -> None:
        """The broker forgets what is before an offset."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        place = TopicPartition(topic, partition, offset)
        admin.delete_records([place])[place].result(30)

    def fill(self, topic: str, values: list[tuple[str, bytes | None]], partition: int = -1) -> None:
        """Produce records: key and value each."""
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        for key, value in values:
            producer.produce(topic, value, key, partition)
        assert producer.flush(30) == 0

    def records(self, topic: str, count: int) -> list[Message]:
        """The first records of a topic, by partition and offset."""
        return records(self.servers, topic, count)
