// What is cut on the screen is whole on paper, which has no buttons.
import { useEffect, useState } from "preact/hooks";

/** Return whether the page is being printed. */
export function usePrinting() {
  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    const changes = [["beforeprint", () => setPrinting(true)], ["afterprint", () => setPrinting(false)]];
    for (const [event, change] of changes) addEventListener(event, change);
    return () => changes.forEach(([event, change]) => removeEventListener(event, change));
  }, []);
  return printing;
}
