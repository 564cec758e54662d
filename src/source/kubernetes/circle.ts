/** An API server that can be reached only through the Service that we would have to program. */

/** What pods are told of Service `kubernetes`, whatever else they are told of the API server. */
const pointer = 'KUBERNETES_PORT';

const serviceName = /^kubernetes(\.default(\.svc(\..+)?)?)?$/;

/**
 * What to do when this server cannot be reached, where it is named by its Service: nothing
 * programs Services on a node that is bare. Undefined = it is named otherwise.
 */
export function circleAdvice(
  server: URL,
  environment: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const address = URL.parse(environment[pointer] ?? '')?.hostname;
  const { hostname } = server;
  if (hostname !== address && !serviceName.test(hostname)) return undefined;
  return (
    `${hostname} is Service kubernetes, which works only once a service proxy runs on this node: ` +
    "give the API server's own address, by KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, " +
    'by the kubeconfig or by --master'
  );
}
