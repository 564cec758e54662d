/** What exit codes mean. Only commands that ask the running proxy can find it unreachable. */
export const exitCodes = { healthy: 0, unhealthy: 1, usage: 2, unreachable: 3 } as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];
