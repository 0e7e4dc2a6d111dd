// Drives any MCP server over stdio with the npm SDK's client: `node drive.mjs COMMAND [ARGUMENT…]`.
// Reads a list of steps from stdin, does one after the other, prints what came back as one JSON list.
// A step is {tool, arguments}, {parallel: [steps]}, {list: "tools" | "resources"}, {read: URI},
// {subscribe: URI} or {updates: true}, which tells how often the server said that something changed.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const [command, ...args] = process.argv.slice(2);
const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const steps = JSON.parse(Buffer.concat(chunks).toString());

const client = new Client({ name: "drive", version: "1.0.0" });
let updates = 0;
client.setNotificationHandler(ResourceUpdatedNotificationSchema, () => { updates += 1; });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));

async function call({ tool, arguments: given }) {
  try {
    const answer = await client.callTool({ name: tool, arguments: given });
    return {
      data: answer.structuredContent ?? null,
      texts: answer.content.map((each) => each.text),
      isError: answer.isError === true,
    };
  } catch (error) {
    return { thrown: String(error.message) };
  }
}

async function take(step) {
  if (step.parallel) return Promise.all(step.parallel.map(take));
  if (step.list === "tools") return (await client.listTools()).tools;
  if (step.list === "resources") return (await client.listResources()).resources;
  if (step.read) return (await client.readResource({ uri: step.read })).contents;
  if (step.subscribe) return client.subscribeResource({ uri: step.subscribe });
  if (step.updates) return updates;
  return call(step);
}

const results = [];
for (const step of steps) results.push(await take(step));
await client.close();
console.log(JSON.stringify(results));
