/** Parts of the library that its own types do not name: each adds some metrics to a registry. */
declare module 'prom-client/lib/metrics/*.js' {
  import type { Registry } from 'prom-client';

  export default function add(registry: Registry): void;
}
