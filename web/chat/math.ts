/** Formulas as MathML, by Temml. Large: loaded when there is a formula. */

import temml from "temml";
import "temml/dist/Temml-Local.css";
import { type Markup, readMarkup, type Vocabulary } from "./markup.ts";

/** Elements of MathML Core and those that Temml writes besides; nothing that links or loads. */
const TAGS =
  "math mrow mi mn mo ms mtext mspace mstyle mpadded mphantom merror menclose " +
  "mfrac msqrt mroot msub msup msubsup munder mover munderover mmultiscripts mprescripts none " +
  "mtable mtr mlabeledtr mtd";
const PLAIN_ATTRIBUTES =
  "accent accentunder class columnalign columnlines columnspacing columnspan depth dir display " +
  "displaystyle fence form height largeop linethickness lspace mathbackground mathcolor mathsize " +
  "mathvariant maxsize minsize movablelimits notation rowlines rowspacing rowspan rspace " +
  "scriptlevel separator side stretchy symmetric voffset width";
const PLAIN_VALUE = /^[\w\s.,%#+-]*$/;
/** Styles that can only look wrong. */
const STYLE = /^(?!.*(?:url|image|content|position|inset|z-index))[\w\s.,%#():;+-]*$/i;

const MATHML: Vocabulary = {
  tags: new Set(TAGS.split(" ")),
  attributes: {
    ...Object.fromEntries(PLAIN_ATTRIBUTES.split(" ").map((name) => [name, PLAIN_VALUE])),
    style: STYLE,
  },
};

/** In em: no formula is larger than the screen. */
const LARGEST: [number, number] = [40, 40];
/** Definitions that a formula may use. */
const MOST_EXPANSIONS = 500;

/** A formula; null for what is none. */
export function mathml(tex: string, display: boolean): readonly Markup[] | null {
  try {
    const text = temml.renderToString(tex, {
      displayMode: display,
      throwOnError: true,
      trust: false,
      maxSize: LARGEST,
      maxExpand: MOST_EXPANSIONS,
    });
    return readMarkup(text, MATHML);
  } catch {
    return null;
  }
}
