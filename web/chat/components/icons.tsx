/** Outlines of 24 by 24, drawn in the colour of the text. */
const PATHS = {
  menu: "M4 6h16M4 12h16M4 18h16",
  plus: "M12 5v14M5 12h14",
  back: "M15 5l-7 7 7 7",
  forward: "M9 5l7 7-7 7",
  onward: "M5 5l7 7-7 7M13 5l7 7-7 7",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5",
  sliders: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4",
  pencil: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 12.5l4.5 4.5L19 7.5",
  again: "M20 12a8 8 0 1 1-2.5-5.8M20 3v4h-4",
  send: "M12 19V6M6 12l6-6 6 6",
  stop: "M7 7h10v10H7z",
  close: "M6 6l12 12M18 6 6 18",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  attach:
    "M19 11l-7.5 7.5a4.5 4.5 0 0 1-6.4-6.4l8-8a3 3 0 0 1 4.3 4.3l-7.9 7.9a1.5 1.5 0 0 1-2.2-2.1L14.5 7",
  file: "M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M16 16l4.5 4.5",
  upload: "M12 15V4M7 8l5-5 5 5M5 20h14",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg
      class="outline"
      viewBox="0 0 24 24"
      width="20"
      height="20"
      fill="none"
      stroke="currentColor"
      stroke-width="1.8"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

interface ButtonProps {
  readonly icon: IconName;
  readonly label: string;
  readonly onClick: (event: MouseEvent) => void;
  readonly testid?: string;
  readonly disabled?: boolean;
  readonly tabIndex?: number;
  readonly class?: string;
}

/** A button that shows only an icon; its label is read and shown on hovering. */
export function IconButton({ icon, label, testid, class: look = "", ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      class={`icon ${look}`}
      aria-label={label}
      title={label}
      data-testid={testid}
      {...rest}
    >
      <Icon name={icon} />
    </button>
  );
}
