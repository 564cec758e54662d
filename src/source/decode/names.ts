/** The labels and annotations that are read, of any object. */
export const headlessLabel = 'service.kubernetes.io/headless';
export const proxyNameLabel = 'service.kubernetes.io/service-proxy-name';
export const serviceNameLabel = 'kubernetes.io/service-name';
export const zoneLabel = 'topology.kubernetes.io/zone';
export const triggerTimeAnnotation = 'endpoints.kubernetes.io/last-change-trigger-time';
export const connectTimeAnnotation = 'fairlead.io/connect-time';
/** Of pods that the kubelet has from a file: what it calls them. */
export const mirrorAnnotation = 'kubernetes.io/config.mirror';
export const initialEventsEndAnnotation = 'k8s.io/initial-events-end';

export const labelNames: readonly string[] = [
  headlessLabel,
  proxyNameLabel,
  serviceNameLabel,
  zoneLabel,
];

export const annotationNames: readonly string[] = [
  triggerTimeAnnotation,
  connectTimeAnnotation,
  mirrorAnnotation,
  initialEventsEndAnnotation,
];
