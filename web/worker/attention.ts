/** Whether anybody sees the page, as far as it says: a worker cannot know by itself. */
export class Attention {
  private visible = true;
  private waiting: (() => void)[] = [];

  get seen(): boolean {
    return this.visible;
  }

  set(visible: boolean): void {
    this.visible = visible;
    if (!visible) return;
    for (const wake of this.waiting.splice(0)) wake();
  }

  /** Resolves at once where the page is seen, else when it is again. */
  returned(): Promise<void> {
    if (this.visible) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }
}
