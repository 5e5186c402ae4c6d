// An actor of a Mainspring application, in Node: it comes for the tasks "thumbnail", and says what they came to.
//
//   MAINSPRING_TOKEN=msp_... node actor.js 127.0.0.1:7411
//
// It takes as many tasks as it has slots free, beats for those at work, and gives results in lists. Every pull has an
// id and every task a ticket, so a call whose answer is lost is simply made again.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const here = dirname(fileURLToPath(import.meta.url));
// The directory that has mainspring/v1/*.proto: the wheel brings them, this repository has them in src.
const protos = process.env.MAINSPRING_PROTOS ?? join(here, "..", "..", "..", "src");
const definition = protoLoader.loadSync("mainspring/v1/actor_service.proto", {
  includeDirs: [protos],
  keepCase: true,
  enums: String,
  longs: Number, // of times
  defaults: true,
  oneofs: true,
});
const { ActorService } = grpc.loadPackageDefinition(definition).mainspring.v1;

const SLOTS = 4;
const WORKER = `thumbnails-${process.pid}`;

// -- the actor itself

async function thumbnail({ photo, width }) {
  if (width <= 0) throw Object.assign(new Error(`a width of ${width}`), { final: true });
  const gate = process.env.GATE; // the tests let it begin and not end
  if (photo.startsWith("slow")) while (gate && !existsSync(gate)) await sleep(20);
  return { url: `/thumbnails/${photo}?w=${width}` };
}

// -- the calls. What reached nobody, or may have, is made again

const address = process.argv[2] ?? "127.0.0.1:7411";
const client = new ActorService(address, grpc.credentials.createInsecure()); // beyond this machine: createSsl
const metadata = new grpc.Metadata();
if (process.env.MAINSPRING_TOKEN) {
  metadata.set("authorization", `Bearer ${process.env.MAINSPRING_TOKEN}`);
}
const AGAIN = [grpc.status.UNAVAILABLE, grpc.status.DEADLINE_EXCEEDED, grpc.status.RESOURCE_EXHAUSTED];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const seconds = (span) => (span ? Number(span.seconds) + span.nanos / 1e9 : 0);

let waiting = null; // the pull that waits
function call(method, request, wait = 0) {
  return new Promise((resolve, reject) => {
    const deadline = Date.now() + (wait + 10) * 1000;
    const made = client[method](request, metadata, { deadline }, (error, answer) =>
      error ? reject(error) : resolve(answer),
    );
    if (method === "PullTasks") waiting = made;
  });
}

const working = new Map(); // tasks by ticket
const results = []; // settlements that were not taken yet
let stopping = false;

async function pull() {
  let id = randomUUID();
  let again = false;
  while (!stopping) {
    const limit = SLOTS - working.size;
    if (limit <= 0) {
      await sleep(5);
      continue;
    }
    try {
      const request = { actors: ["thumbnail"], limit, wait: { seconds: 20 }, worker: WORKER };
      const answer = await call("PullTasks", { ...request, pull_id: id, again }, 20);
      id = randomUUID();
      again = false;
      for (const task of answer.tasks) work(task);
      if (answer.pause) await sleep(seconds(answer.pause) * 1000);
    } catch (error) {
      if (stopping) return;
      if (!AGAIN.includes(error.code)) throw error;
      again = true; // it may have been answered: the same id gives the same tasks
      await sleep(200);
    }
  }
}

async function work(task) {
  if (working.has(task.ticket)) return;
  working.set(task.ticket, task);
  console.log(`works ${task.task_id} ${task.attempt}`);
  let answer;
  try {
    const result = await thumbnail(JSON.parse(task.args_json));
    answer = { result_json: JSON.stringify(result) };
  } catch (error) {
    const { name, message, final = false } = error;
    answer = { failure: { code: name, message, final } };
  }
  if (working.has(task.ticket)) results.push({ ticket: task.ticket, ...answer });
}

async function settle() {
  while (!stopping || working.size) {
    if (!results.length) {
      await sleep(3);
      continue;
    }
    const settlements = results.slice(0, 250);
    try {
      const { settled } = await call("SettleTasks", { worker: WORKER, settlements });
      results.splice(0, settlements.length);
      settlements.forEach((settlement, n) => {
        const as = settled[n].settled_as;
        if (as === "SETTLED_AS_BUSY") results.push(settlement);
        else if (as === "SETTLED_AS_INVALID") {
          const { message } = settled[n].problem; // a fault of ours: a failure, which is counted
          console.error(message);
          const failed = { failure: { code: "InvalidResult", message } };
          results.push({ ticket: settlement.ticket, ...(settlement.failure ? { release: {} } : failed) });
        } else working.delete(settlement.ticket);
      });
    } catch (error) {
      if (!AGAIN.includes(error.code)) throw error;
      await sleep(200); // again: what was taken is answered as ALREADY
    }
  }
}

async function beat() {
  while (!stopping || working.size) {
    const every = Math.min(5, ...[...working.values()].map((task) => seconds(task.beat_every)));
    await sleep(every * 1000);
    const tickets = [...working.keys()];
    if (!tickets.length) continue;
    try {
      const { beaten } = await call("BeatTasks", { tickets });
      beaten.forEach(({ answer }, n) => {
        if (answer === "stop") working.delete(tickets[n]); // its result counts no longer
      });
    } catch (error) {
      if (!AGAIN.includes(error.code)) throw error;
    }
  }
}

// Leave in order: call the waiting pull off (the server takes back what it held), finish what is at work.
process.on("SIGTERM", () => {
  stopping = true;
  waiting?.cancel();
});

// What asking again cannot mend: a token that is no good, a scope that is missing.
const end = (error) => {
  console.error(error.details ?? error);
  process.exit(1);
};
beat().catch(end);
await Promise.all([pull(), settle()]).catch(end);
console.log("left");
process.exit(0);
