/** The demo's objects, in the form of a cluster's. */

export function serviceManifest(clusterIP: string, port: number): string {
  return `apiVersion: v1
kind: Service
metadata: { name: web, namespace: demo }
spec:
  clusterIP: ${clusterIP}
  ports: [{ name: http, port: ${port}, protocol: TCP }]
`;
}

export function sliceManifest(pods: readonly { readonly address: string }[], port: number): string {
  const endpoints = pods.map(
    ({ address }) => `  - { addresses: [${address}], conditions: { ready: true } }\n`,
  );
  return `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  namespace: demo
  labels: { kubernetes.io/service-name: web }
addressType: IPv4
ports: [{ name: http, port: ${port}, protocol: TCP }]
endpoints:
${endpoints.join('')}`;
}
