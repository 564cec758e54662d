import type { Environment, Pause, Planner } from '../modes/mode.ts';

/** The environment: as it is desired, as the planner was told, and whether that is in force. */
export class PlannedEnvironment {
  desired: Environment;
  #planned: Environment;
  #isInForce = true;

  constructor(environment: Environment) {
    this.desired = environment;
    this.#planned = environment;
  }

  /** The environment that the planner was told last. */
  get planned(): Environment {
    return this.#planned;
  }

  get isDue(): boolean {
    return this.desired !== this.#planned;
  }

  /** Whether `planned` is in force. */
  get isInForce(): boolean {
    return this.#isInForce;
  }

  async plan(planner: Planner, pause: Pause): Promise<void> {
    if (!this.isDue) return;
    this.#planned = this.desired;
    this.#isInForce = false;
    await planner.environment(this.desired, pause);
  }

  committed(): void {
    this.#isInForce = true;
  }
}
