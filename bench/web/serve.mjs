/** A static server with what both libraries need: ranges, types, caching, isolation of origins. */
import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".json": "application/json",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
};

/**
 * Serve folders by URL prefix on a free port of localhost; the first prefix that fits counts.
 *
 * `files` of the answer are the paths of all that was asked for.
 */
export function serve(folders) {
  const files = new Set();
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const prefix = Object.keys(folders).find((name) => path.startsWith(name));
    const file = prefix && join(folders[prefix], normalize(`/${path.slice(prefix.length)}`));
    try {
      const { size, mtimeMs } = statSync(file);
      const headers = {
        "Cache-Control": path.endsWith("/bundle.json") ? "no-cache" : "max-age=3600, immutable",
        "Content-Type": TYPES[extname(file)] ?? "application/octet-stream",
        "Cross-Origin-Embedder-Policy": "require-corp",
        "Cross-Origin-Opener-Policy": "same-origin",
        ETag: `"${size}-${mtimeMs}"`,
      };
      files.add(file);
      if (request.headers["if-none-match"] === headers.ETag) {
        response.writeHead(304, headers).end();
        return;
      }
      const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
      const start = range ? Number(range[1]) : 0;
      const end = range?.[2] ? Number(range[2]) : size - 1;
      response.writeHead(range ? 206 : 200, {
        ...headers,
        "Content-Length": end - start + 1,
        ...(range && { "Content-Range": `bytes ${start}-${end}/${size}` }),
      });
      createReadStream(file, { start, end }).pipe(response);
    } catch {
      response.writeHead(404).end();
    }
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const url = `http://localhost:${server.address().port}`;
      resolve({ url, files, close: () => server.close() });
    });
  });
}
