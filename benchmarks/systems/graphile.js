// Graphile Worker (Node): producer and worker, speaking the same lines as adapter.py.
//
// The slot is written with one pwrite per job, because Node has no memory map of its own;
// that costs it about two microseconds a job.
"use strict";

const fs = require("fs");
const path = require("path");
const readline = require("readline");
const { run, makeWorkerUtils, Logger } = require("graphile-worker");
const { Pool } = require("pg");

const [role, url, text] = process.argv.slice(2);
const settings = JSON.parse(text);
const CHUNK = 5000;
const [NOTHING, STAMP, FAIL_ONCE, SLEEP, NAP] = [0, 1, 2, 3, 6];
const quiet = new Logger(() => () => {});
const nanoseconds = () => process.hrtime.bigint();
const nap = (ms) => new Promise((wake) => setTimeout(wake, ms));

function pool(most) {
  const at = new URL(url.replace("postgresql://postgres@/", "postgresql://postgres@socket/"));
  const made = new Pool({
    host: at.searchParams.get("host"),
    port: Number(at.searchParams.get("port") || 5432),
    user: "postgres",
    database: at.pathname.slice(1),
    max: most,
  });
  // As its guide wants them of a pool that it is given: a lost connection must not end the process.
  made.on("error", () => {});
  made.on("connect", (client) => client.on("error", () => {}));
  return made;
}

function payload(number, act) {
  return {
    user_id: 48213,
    email: "grace.hopper@example.org",
    template: "welcome-back",
    locale: "en-GB",
    number,
    act,
  };
}

class Probe {
  constructor() {
    this.directory = process.env.BENCH_SLOTS;
    this.mark = BigInt(process.env.BENCH_MARK || 0);
    this.napMs = 1000 * Number(process.env.BENCH_NAP || 1);
    this.slot = Buffer.alloc(32);
    this.stamped = Buffer.alloc(24);
    this.count = 0n;
    this.failed = new Set();
  }

  hit() {
    const now = nanoseconds();
    if (this.count === 0n) {
      this.file = fs.openSync(path.join(this.directory, `${process.pid}.slot`), "w");
      this.slot.writeBigInt64LE(now, 16);
    }
    this.count += 1n;
    this.slot.writeBigInt64LE(this.count, 0);
    this.slot.writeBigInt64LE(now, 8);
    if (this.count === this.mark) this.slot.writeBigInt64LE(now, 24);
    fs.writeSync(this.file, this.slot, 0, 32, 0);
  }

  async act({ number, act }) {
    const started = nanoseconds();
    if (act === SLEEP || act === NAP) await nap(this.napMs);
    if (act === FAIL_ONCE && !this.failed.has(number)) {
      this.failed.add(number);
      throw new Error(`job ${number} fails once on purpose`);
    }
    if (act === STAMP || act === SLEEP) {
      this.stamps ??= fs.openSync(path.join(this.directory, `${process.pid}.stamps`), "a");
      this.stamped.writeBigInt64LE(BigInt(number), 0);
      this.stamped.writeBigInt64LE(started, 8);
      this.stamped.writeBigInt64LE(nanoseconds(), 16);
      fs.writeSync(this.stamps, this.stamped);
    }
    this.hit();
  }
}

async function work() {
  const probe = new Probe();
  const worker = { concurrentJobs: settings.slots, maxPoolSize: settings.pool };
  if (settings.local) worker.localQueue = { size: settings.local };
  if (settings.delay !== null && settings.delay !== undefined) {
    worker.completeJobBatchDelay = settings.delay;
    worker.failJobBatchDelay = settings.delay;
  }
  const noop = async (job) => (job.act === NOTHING ? probe.hit() : probe.act(job));
  await run({
    pgPool: pool(settings.pool),
    logger: quiet,
    preset: { worker },
    taskList: { noop },
  });
}

class Producer {
  async ready() {}

  async open() {
    this.pool = pool(4);
    this.utils = await makeWorkerUtils({ pgPool: this.pool, logger: quiet });
  }

  async migrate() {
    await this.open();
    await this.utils.migrate();
  }

  async close() {
    await this.utils.release();
    await this.pool.end();
  }

  async remaining() {
    const sql = "select count(*)::int as n from graphile_worker._private_jobs";
    return (await this.pool.query(sql)).rows[0].n;
  }

  async many(jobs, priority, groups) {
    await this.utils.addJobs(
      jobs.map((job, i) => ({
        identifier: "noop",
        payload: job,
        priority: -priority,
        queueName: groups ? groups[i] : undefined,
      })),
    );
  }

  async singles({ seconds }) {
    for (let i = 0; i < 50; i++) await this.utils.addJob("noop", payload(0, NOTHING));
    const start = nanoseconds();
    const passed = () => Number(nanoseconds() - start) / 1e9;
    let count = 0;
    for (; passed() < seconds; count++) await this.utils.addJob("noop", payload(0, NOTHING));
    return { count, seconds: passed() };
  }

  async bulk({ n, failing = 0, groups = 0, act = NOTHING, priority = 0 }) {
    const kind = (i) => (failing && i % failing === 0 ? FAIL_ONCE : act);
    const jobs = Array.from({ length: n }, (_, i) => payload(kind(i) ? i + 1 : 0, kind(i)));
    const names = groups ? jobs.map((_, i) => `group-${i % groups}`) : null;
    const start = nanoseconds();
    for (let low = 0; low < n; low += CHUNK) {
      const high = low + CHUNK;
      await this.many(jobs.slice(low, high), priority, names && names.slice(low, high));
    }
    const end = nanoseconds();
    return { count: n, seconds: Number(end - start) / 1e9, returned: Number(end) };
  }

  async paced({ n, gap, batch = 1, priority = 0, first = 1 }) {
    const before = [];
    const after = [];
    let due = Number(nanoseconds()) / 1e6;
    for (let number = first; number < first + n; number += batch) {
      due += gap * 1000;
      await nap(Math.max(0, due - Number(nanoseconds()) / 1e6));
      const jobs = Array.from({ length: batch }, (_, i) => payload(number + i, STAMP));
      const start = Number(nanoseconds());
      if (batch === 1) await this.utils.addJob("noop", jobs[0], { priority: -priority });
      else await this.many(jobs, priority, null);
      const end = Number(nanoseconds());
      for (let i = 0; i < batch; i++) {
        before.push(start);
        after.push(end);
      }
    }
    return { before, after };
  }
}

async function serve() {
  const producer = new Producer();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { do: what, ...rest } = JSON.parse(line);
    let answer;
    try {
      answer = { ok: (await producer[what](rest)) ?? null };
    } catch (error) {
      console.error(error);
      answer = { error: String(error).slice(0, 500) };
    }
    fs.writeSync(1, JSON.stringify(answer) + "\n");
  }
  process.exit(0);
}

(role === "worker" ? work() : serve()).catch((error) => {
  console.error(error);
  process.exit(1);
});
