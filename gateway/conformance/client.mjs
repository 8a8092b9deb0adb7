// A client made of the TypeScript SDK. It reads from its argument what to connect to and which
// calls to make, all at once, and prints each result as a line of JSON, in order.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { url, command, calls } = JSON.parse(process.argv[2]);
const client = new Client({ name: "pawl-trial", version: "1" });
await client.connect(
  url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command: command[0], args: command.slice(1), stderr: "inherit" }),
);
await client.listTools(); // it keeps the output schemas, and checks results against them
for (const result of await Promise.all(calls.map((call) => client.callTool(call)))) {
  console.log(JSON.stringify(result));
}
await client.close();
