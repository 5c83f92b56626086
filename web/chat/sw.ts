/**
 * Keeps the app for offline use: what was built, under a name that changes with it. Bundles are not
 * its business (the engine keeps weights itself), nor is the host's list of them.
 */

/** URLs of the app, put in by the build. */
declare const __PRECACHE__: readonly string[];
// The compiler takes every file's global for a window.
const worker = self as unknown as ServiceWorkerGlobalScope;

const PREFIX = "edgewise-app-";
const NAME = PREFIX + hash(__PRECACHE__.join("\n"));

worker.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(NAME)
      .then((cache) =>
        cache.addAll(__PRECACHE__.map((url) => new Request(url, { cache: "reload" }))),
      )
      .then(() => worker.skipWaiting()),
  );
});

worker.addEventListener("activate", (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) => names.filter((name) => name.startsWith(PREFIX) && name !== NAME))
      .then((old) => Promise.all(old.map((name) => caches.delete(name))))
      .then(() => worker.clients.claim()),
  );
});

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== "GET" || origin !== worker.location.origin) return;
  if (pathname.startsWith("/assets/")) event.respondWith(keptFirst(request));
  else if (pathname === "/" || __PRECACHE__.includes(pathname)) {
    event.respondWith(networkFirst(request));
  }
});

async function keptFirst(request: Request): Promise<Response> {
  return (await caches.match(request)) ?? fetch(request);
}

async function networkFirst(request: Request): Promise<Response> {
  try {
    return await fetch(request);
  } catch (error) {
    const kept = await caches.match(request, { ignoreSearch: true });
    if (kept) return kept;
    throw error;
  }
}

/** A short name for a list of hashed file names (FNV-1a, 32 bits). */
function hash(text: string): string {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    value = Math.imul(value ^ text.charCodeAt(i), 0x01000193) >>> 0;
  }
  return value.toString(16);
}
