/**
 * Keeps the app for offline use: what was built, under a name that changes with it. Bundles are not
 * its business (the engine keeps weights itself), nor is the host's list of them.
 *
 * A new version waits until the pages of the old one are closed, so that none loses files it has yet
 * to load.
 */

/** URLs of the app and a hash of what they hold, put in by the build. */
declare const __PRECACHE__: readonly string[];
declare const __REVISION__: string;
// The compiler takes every file's global for a window.
const worker = self as unknown as ServiceWorkerGlobalScope;

const PREFIX = "edgewise-app-";
const NAME = PREFIX + __REVISION__;
/** Pages that the host alone has. */
const HOSTED = /^\/(?:api|bundles|selftest)(?:\/|$)/;
/** The host is waited for this long before the app opens from what is kept, in milliseconds. */
const PATIENCE = 3000;

worker.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(NAME)
      .then((cache) =>
        cache.addAll(__PRECACHE__.map((url) => new Request(url, { cache: "reload" }))),
      ),
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
  else if (HOSTED.test(pathname)) return;
  else if (request.mode === "navigate") event.respondWith(networkFirst(request, "/"));
  else if (__PRECACHE__.includes(pathname)) event.respondWith(networkFirst(request, pathname));
});

/** For files whose names change with what they hold. */
async function keptFirst(request: Request): Promise<Response> {
  return (await kept(request.url)) ?? fetch(request);
}

async function networkFirst(request: Request, url: string): Promise<Response> {
  const known = await kept(url);
  if (!known) return fetch(request);
  try {
    const response = await fetch(request, { signal: AbortSignal.timeout(PATIENCE) });
    return response.status < 500 ? response : known;
  } catch {
    return known;
  }
}

async function kept(url: string): Promise<Response | undefined> {
  return (await caches.open(NAME)).match(url, { ignoreVary: true });
}
