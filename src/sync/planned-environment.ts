import type { Environment, Pause, Planner } from '../modes/mode.ts';

/** What applies to all Services: as desired, as the planner knows it, and as it is in force. */
export class PlannedEnvironment {
  desired: Environment;
  #planned: Environment;
  #isInForce = true;

  constructor(environment: Environment) {
    this.desired = environment;
    this.#planned = environment;
  }

  /** What the planner was told last. */
  get planned(): Environment {
    return this.#planned;
  }

  get isDue(): boolean {
    return this.desired !== this.#planned;
  }

  /** The last that the planner was told is in force. */
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
