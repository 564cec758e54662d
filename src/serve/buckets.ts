/** kube-proxy's buckets for durations in seconds: 0.001 × 2^k for k = 0 … 14. */
export const exponential = Array.from({ length: 15 }, (_, k) => 0.001 * 2 ** k);
