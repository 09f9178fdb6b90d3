"""Write the files of `questions.yaml`: a plot, a scanned report and a spoken question.

Needs Pillow (`pip install pillow`) and, for the spoken question, the program espeak-ng. Run it in any folder.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

BARS = {"placebo": 12, "10 mg": 31, "20 mg": 47}
REPORT = ["CITY LABORATORY", "Patient 4711", "Potassium   5.9 mmol/l   (high)", "Sodium   141 mmol/l"]
QUESTION = "What is seven times six?"


def draw_plot() -> Image.Image:
    """Return a bar chart with a number on each bar."""
    picture = Image.new("RGB", (600, 400), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=28)
    draw.text((120, 10), "Patients without pain (%)", fill="black", font=font)
    for place, (name, height) in enumerate(BARS.items()):
        left, top = 70 + 180 * place, 340 - 5 * height
        draw.rectangle((left, top, left + 110, 340), fill="steelblue")
        draw.text((left + 35, top - 38), str(height), fill="black", font=font)
        draw.text((left + 5, 350), name, fill="black", font=font)
    return picture


def draw_report() -> Image.Image:
    """Return a page of text that lies a little askew, as on a scanner."""
    picture = Image.new("L", (900, 500), 255)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=34)
    for place, line in enumerate(REPORT):
        draw.text((60, 60 + 90 * place), line, fill=40, font=font)
    return picture.rotate(1.5, fillcolor=235)


def main() -> None:
    """Write the files to the current folder."""
    draw_plot().save("plot.png")
    draw_report().save("report.png")
    Image.new("RGB", (900, 500), "white").save(
        "report.pdf", save_all=True, append_images=[draw_report().convert("RGB")]
    )
    espeak = shutil.which("espeak-ng")
    if espeak is None:
        sys.exit("question.wav was not written: install espeak-ng (apt-get install espeak-ng) and run this again")
    subprocess.run([espeak, "-w", "question.wav", QUESTION], check=True)  # noqa: S603 - the text is our own
    sys.stdout.write(f"wrote plot.png, report.png, report.pdf and question.wav to {Path.cwd()}\n")


if __name__ == "__main__":
    main()
