/** What Services carry. */
export type Protocol = 'TCP' | 'UDP' | 'SCTP';
