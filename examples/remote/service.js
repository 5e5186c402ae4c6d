// A stage of a Mainspring application, in Node: it gives each listing a slug made of its title.
//
//   node service.js 127.0.0.1:7500
//
// It implements mainspring.v1.StageService. Entities come as JSON with the fields that the application
// declares by reads=; what it answers is saved by the application's workers, if writes= declares it.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const here = dirname(fileURLToPath(import.meta.url));
// The directory that has mainspring/v1/*.proto: the wheel brings them, this repository has them in src.
const protos = process.env.MAINSPRING_PROTOS ?? join(here, "..", "..", "src");
const definition = protoLoader.loadSync("mainspring/v1/stage_service.proto", {
  includeDirs: [protos],
  longs: String, // versions and numbers of events have 64 bits
  defaults: true,
  oneofs: true,
});
const { StageService } = grpc.loadPackageDefinition(definition).mainspring.v1;

// -- the stage itself

const SCHEMA = 1; // of the state that it keeps with each listing

function shouldProcess(listing) {
  return listing.title.trim() !== "";
}

function process_(listing, state) {
  const slug = listing.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  if (slug === "") throw new Error(`no slug can be made of ${JSON.stringify(listing.title)}`);
  return { patch: { slug }, state: { made: (state?.made ?? 0) + 1 } };
}

function saved(id, event) {
  console.log(`saved ${id} ${event.number}`); // such as: tell the search index. It may come again
}

// -- its calls. Each listing is answered by its id, and fails by itself

function parse(body) {
  return body?.form === "json" ? JSON.parse(body.json) : null;
}

function problem(error) {
  return { code: error.name, message: error.message };
}

function describe(call, callback) {
  const { kind, stage } = call.request;
  if (kind !== "listing" || stage !== "slug") {
    const code = grpc.status.UNIMPLEMENTED;
    return callback({ code, details: `no stage ${kind}/${stage} here` });
  }
  callback(null, { reads: ["title"], writes: ["slug"], asks: true, hears: true, schema: SCHEMA });
}

function ask(call, callback) {
  const verdicts = call.request.items.map((item) => {
    try {
      return { id: item.id, wanted: shouldProcess(parse(item.entity)) };
    } catch (error) {
      return { id: item.id, problem: problem(error) };
    }
  });
  callback(null, { verdicts });
}

function processAll(call, callback) {
  console.log(`Process ${call.request.items.map((item) => item.id).join(" ")}`);
  const outcomes = call.request.items.map((item) => {
    try {
      const { patch, state } = process_(parse(item.entity), parse(item.state));
      return {
        id: item.id,
        update: { patch: { json: JSON.stringify(patch) } },
        state: { body: { json: JSON.stringify(state) }, schema: SCHEMA },
      };
    } catch (error) {
      return { id: item.id, problem: problem(error) };
    }
  });
  callback(null, { outcomes });
}

function hear(call, callback) {
  const heard = call.request.entities.map(({ id, events }) => {
    let number = "0";
    try {
      for (const event of events) {
        saved(id, event);
        number = event.number;
      }
      return { id, number };
    } catch (error) {
      return { id, number, problem: problem(error) }; // those up to number were heard
    }
  });
  callback(null, { heard });
}

// -- the server. Beyond this machine it wants TLS: CERT and KEY are PEM files, CA that of its callers

function credentials() {
  const { CERT, KEY, CA } = process.env;
  if (!CERT) return grpc.ServerCredentials.createInsecure();
  const pair = { cert_chain: readFileSync(CERT), private_key: readFileSync(KEY) };
  return grpc.ServerCredentials.createSsl(CA ? readFileSync(CA) : null, [pair], Boolean(CA));
}

// A service says itself whether it is up by grpc.health.v1; without it, Describe is what workers try.
const server = new grpc.Server({ "grpc.max_receive_message_length": 16 * 1024 * 1024 });
server.addService(StageService.service, {
  Describe: describe,
  ShouldProcess: ask,
  Process: processAll,
  Saved: hear,
});
server.bindAsync(process.argv[2] ?? "127.0.0.1:7500", credentials(), (error, port) => {
  if (error) throw error;
  console.log(`serves ${port}`);
});
process.on("SIGTERM", () => server.tryShutdown(() => process.exit(0)));
