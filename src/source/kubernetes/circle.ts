/**
 * Advice for an API server that is named by a Service, which works only after we have programmed
 * it.
 */

/** The environment variable of pods with the address of Service `kubernetes`. */
const pointer = 'KUBERNETES_PORT';

const serviceName = /^kubernetes(\.default(\.svc(\..+)?)?)?$/;

/**
 * What to do when this server cannot be reached and is named by its Service; undefined = it is
 * named otherwise.
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
