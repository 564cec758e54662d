/** The release of kube-proxy whose flags, file and answers this program has. */
export const kubernetesVersion = 'v1.36.2';

/** This program's own release; a test holds it against package.json. */
export const fairleadVersion = 'v0.1.0';

/** What kube-proxy prints. */
export const kubernetesLine = `Kubernetes ${kubernetesVersion}\n`;
export const fairleadLine = `Fairlead ${fairleadVersion}\n`;
