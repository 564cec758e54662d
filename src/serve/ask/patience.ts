/** Waits for `work`, for `ms` at most. Rejects as it does, in that time. */
export async function waitedAtMost(ms: number, work: Promise<void>): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
