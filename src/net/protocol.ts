/** What Services carry. */
export const protocols = ['TCP', 'UDP', 'SCTP'] as const;
export type Protocol = (typeof protocols)[number];
