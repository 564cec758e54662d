/**
 * Advice for the case that the API server's address is that of its own Service, which works only
 * after this program has programmed it.
 */

/** The environment variable of pods with the address of Service `kubernetes`. */
const pointer = 'KUBERNETES_PORT';

const serviceName = /^kubernetes(\.default(\.svc(\..+)?)?)?$/;

/**
 * The advice if this server cannot be reached and its address is that of a Service; undefined = it
 * has another address.
 */
export function ownServiceAdvice(
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
