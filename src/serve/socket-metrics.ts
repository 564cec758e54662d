/** Metrics of the file descriptors that sockets of Services use. */
import { Counter, Gauge, type Registry } from 'prom-client';
import { bounds, type Descriptors } from '../modes/sockets/descriptors.ts';

export function socketMetrics(
  registry: Registry,
  descriptors: Pick<Descriptors, 'max' | 'refused' | 'used'>,
): void {
  const registers = [registry];
  new Gauge({
    name: 'fairlead_socket_descriptors',
    help: 'File descriptors that sockets of Services use: mode userspace, and node ports on loopback addresses',
    registers,
    collect() {
      this.set(descriptors.used);
    },
  });
  new Gauge({
    name: 'fairlead_socket_descriptors_max',
    help: 'File descriptors that sockets of Services may use in all',
    registers,
    collect() {
      this.set(descriptors.max.all);
    },
  });
  new Counter({
    name: 'fairlead_socket_clients_refused_total',
    help: 'Connections that sockets of Services closed, and datagrams that they dropped, because all sockets (`all`), those of one frontend or of one client address use as many file descriptors as they may',
    labelNames: ['bound'],
    registers,
    collect() {
      this.reset();
      for (const bound of bounds) this.inc({ bound }, descriptors.refused[bound]);
    },
  });
}
