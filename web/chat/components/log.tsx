import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface Props {
  /** Which conversation it is: another one is shown from its end. */
  readonly conversation: string;
  readonly children: ComponentChildren;
}

/** Pixels from the end within which the end is followed. */
const NEAR = 48;

/** The messages; stays at the end while they grow, unless a person scrolled up. */
export function Log({ conversation, children }: Props) {
  const log = useRef<HTMLElement>(null);
  const following = useRef(true);
  const shown = useRef(conversation);
  useLayoutEffect(() => {
    if (shown.current !== conversation) following.current = true;
    shown.current = conversation;
    const element = log.current;
    if (element && following.current) element.scrollTop = element.scrollHeight;
  });
  return (
    <section
      class="log"
      ref={log}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is scrolled by keys too
      tabIndex={0}
      aria-label="Messages"
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
        following.current = scrollHeight - scrollTop - clientHeight < NEAR;
      }}
    >
      {children}
    </section>
  );
}
