/** What the exit codes of commands mean that look at a node, or ask its proxy. */
export const exitCodes = { healthy: 0, unhealthy: 1, usage: 2, unreachable: 3 } as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];
