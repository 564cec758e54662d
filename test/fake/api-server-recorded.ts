/**
 * Answers of a real kube-apiserver 1.36, byte by byte, as far as they matter to a client. They were
 * recorded with `curl -i` from one with etcd 3.5.30 and one with etcd 3.4.23, with the feature gate
 * WatchList on and off. Statuses come with `Content-Type: application/json` and a Content-Length,
 * watches with status 200 and `Transfer-Encoding: chunked`.
 */

/** The answer, status 200, to a streaming list where etcd lacks RequestWatchProgress (3.4.23). */
import type { Watched } from '../../src/source/source.ts';
export const streamingListUnbacked =
  '{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled","reason":"InternalError","code":500}}\n';

/** The answer, status 200, to a watch from a resourceVersion that is forgotten. */
export const watchExpired =
  '{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (486)","reason":"Expired","code":410}}\n';

/** Bodies by status. */
export const statuses: ReadonlyMap<number, string> = new Map([
  [
    400,
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"invalid continue token: continue key is not valid: invalid character \'i\' looking for beginning of value","reason":"BadRequest","code":400}\n',
  ],
  [
    401,
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}\n',
  ],
  [
    403,
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"secrets is forbidden: User \\"system:kube-proxy\\" cannot list resource \\"secrets\\" in API group \\"\\" at the cluster scope","reason":"Forbidden","details":{"kind":"secrets"},"code":403}\n',
  ],
  [
    404,
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}\n',
  ],
  [
    // A list that continues from an expired token.
    410,
    '{"kind":"Status","apiVersion":"v1","metadata":{"continue":"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiZGVmYXVsdFx1MDAwMCJ9"},"status":"Failure","message":"The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.","reason":"Expired","code":410}\n',
  ],
  [
    // A streaming list where the feature gate WatchList is off; for people it is indented.
    422,
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \\"\\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled","field":"sendInitialEvents"}]},"code":422}\n',
  ],
  [
    // A list from a resourceVersion to come. A watch from one is accepted, and silent.
    504,
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 999999, current: 281","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}\n',
  ],
]);

/** The fields of a bookmark's object, except kind, apiVersion and metadata. */
export const bookmarkRest: Readonly<Record<Watched, string>> = {
  services: ',"spec":{},"status":{"loadBalancer":{}}',
  endpointslices: ',"addressType":"","endpoints":null,"ports":null',
  nodes:
    ',"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}',
  servicecidrs: ',"spec":{},"status":{}',
  pods: ',"spec":{"containers":null},"status":{}',
};
