"""The units that `Quantity` knows, as people write them, each with its name in the registry of pint.

Only these names are passed to pint, never a text from a model. The symbols are those of the SI brochure (9th edition)
and of UCUM; the rest is common use in laboratories and hospitals. Names that end in an underscore are defined in
`conversion.py`, because pint has no such unit or gives it no dimension of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from karenina_toolkit.lazy_patterns import lazy_pattern

_PREFIXES: Final = {
    "f": "femto", "p": "pico", "n": "nano", "u": "micro", "mc": "micro", "m": "milli", "c": "centi", "d": "deci",
    "h": "hecto", "k": "kilo", "M": "mega", "G": "giga", "T": "tera", "P": "peta", "Ki": "kibi", "Mi": "mebi",
    "Gi": "gibi", "Ti": "tebi",
}  # fmt: skip

_WITH_PREFIXES: Final = """
meter               ; m          ; meter, metre                               ; f p n u m c d k M G
gram                ; g          ; gram, gramme                               ; f p n u mc m c d h k
second              ; s, sec     ; second                                     ; p n u m
ampere              ; A          ; ampere, amp                                ; f p n u m k
kelvin              ; K          ; kelvin                                     ; n u m k M G
mole                ; mol        ; mole                                       ; f p n u mc m c d k
candela             ; cd         ; candela                                    ; m k
hertz_              ; Hz         ; hertz                                      ; m k M G T P
newton              ; N          ; newton                                     ; p n u m k M G
pascal              ; Pa         ; pascal                                     ; u m h k M G T
joule               ; J          ; joule                                      ; f p n u m k M G T P
watt                ; W          ; watt                                       ; f p n u m k M G T
volt                ; V          ; volt                                       ; p n u m k M G
coulomb             ;            ; coulomb                                    ; f p n u m k M
coulomb             ; _C         ;                                            ; f p n u m k M
farad               ; _F         ; farad                                      ; f p n u m
ohm                 ; Ω, ohm, Ohm ; ohm                                       ; u m k M G T
newton_meter_       ; Nm         ; newton meter, newton metre, newton-meter, newton-metre ; u m c k M
rem_                ; rem        ; rem                                        ; u m
siemens             ; S          ; siemens                                    ; p n u m k
weber               ; Wb         ; weber                                      ; n u m
tesla               ; T          ; tesla                                      ; f p n u m
gauss_              ; G          ; gauss                                      ; u m k
henry               ; H          ; henry, henries                             ; n u m
lumen               ; lm         ; lumen                                      ; m k
lux                 ; lx         ; lux                                        ; m k
becquerel_          ; Bq         ; becquerel                                  ; m k M G T
curie_              ; Ci         ; curie                                      ; p n u m k M
gray                ; Gy         ; gray                                       ; u m c k
sievert_            ; Sv         ; sievert                                    ; u m c k
liter               ; L, l       ; liter, litre                               ; f p n u mc m c d h
electron_volt       ; eV         ; electronvolt, electron volt, electron-volt ; n u m k M G T P
calorie             ; cal        ; calorie                                    ; k
international_calorie ; cal_IT   ; international calorie                      ; k
bar                 ; bar        ; bar                                        ; u m k M G
watt_hour_          ; Wh         ; watt hour, watt-hour                       ; m k M G T
ampere_hour_        ; Ah         ; ampere hour, ampere-hour, amp hour, amp-hour ; u m k
volt_ampere_        ; VA         ; volt ampere, volt-ampere                   ; m k M
molar               ; M          ; molar                                      ; f p n u m
poise               ; P          ; poise                                      ; u m c
stokes              ; St         ; stokes                                     ; c
parsec              ; pc         ; parsec                                     ; k M G
torr                ; Torr, torr ; torr                                       ; m
radian_             ; rad        ; radian                                     ; n u m
arcsecond_          ; as_        ; arcsecond, arc second                      ; u m
base_               ; bp, nt     ; base pair, basepair, nucleotide            ; k M G T
base_               ; _b         ; base                                       ; k M G T
international_unit_ ; IU, U      ; international unit                         ; n u m k M
equivalent_         ; Eq, _eq    ; equivalent                                 ; u m
osmole_             ; Osm, osm, osmol ; osmole                                ; u m
morgan_             ; morgan     ; morgan                                     ; c
byte_               ; B          ; byte                                       ; k M G T P Ki Mi Gi Ti
bit_                ; bit        ; bit                                        ; k M G T
year_               ; yr         ; year                                       ; k M G
"""
"""A unit on each line: its name in pint, symbols, words, and prefixes. A symbol after _ exists only with a prefix."""

_OTHERS: Final = """
minute                     ; min, mins          ; minute
hour                       ; h, hr, hrs         ; hour
day                        ; d                  ; day
week                       ; wk, wks            ; week
second                     ; secs               ;
month_                     ; mo, mos, mth       ; month
year_                      ; y, yrs             ; year old, years old, year of age, years of age
kiloyear_                  ; ka, kyr            ;
megayear_                  ; Ma, Myr, mya       ; million years
gigayear_                  ; Ga, Gyr, bya       ; billion years
decade_                    ;                    ; decade
century_                   ;                    ; century, centuries
gram                       ; gm, gms            ;
kilogram                   ; kgs, kilo          ;
metric_ton                 ; t                  ; tonne, metric ton, metric tonne
metric_ton or short_ton_ or long_ton_ ;         ; ton
short_ton_                 ;                    ; short ton, us ton
long_ton_                  ;                    ; long ton, imperial ton
galileo_ or gallon         ; Gal                ;
kilometric_ton             ; kt                 ; kiloton, kilotonne
megametric_ton             ; Mt                 ; megaton, megatonne
pound                      ; lb, lbs            ; pound
ounce                      ; oz, ozs            ; ounce
troy_ounce                 ; ozt, oz t          ; troy ounce, troy oz
grain                      ; gr                 ; grain
stone                      ; st                 ; stone
dalton or molar_dalton_ or micrometer ; u       ;
dalton or molar_dalton_    ; Da, amu            ; dalton, unified atomic mass unit, atomic mass unit
kilodalton or kilomolar_dalton_ ; kDa           ; kilodalton
megadalton or megamolar_dalton_ ; MDa           ; megadalton
angstrom                   ; Å                  ; angstrom, ångström
micrometer                 ;                    ; micron
mile                       ; mi                 ; mile
nautical_mile              ; nmi                ; nautical mile, nautical mi
inch                       ; in                 ; inch, inches
inch or second or arcsecond_ ; "                ;
foot                       ; ft                 ; foot, feet
foot or minute or arcminute_ ; '                ;
yard                       ; yd, yds            ; yard
light_year                 ; ly                 ; light-year, light year, lightyear
astronomical_unit          ; au, AU             ; astronomical unit
hectare                    ; ha                 ; hectare
acre_ or acre              ;                    ; acre
milliliter                 ; cc, ccm            ;
gallon                     ; gal                ; gallon, us gallon, us gal
quart                      ; qt                 ; quart, us quart, us qt
liquid_pint                ;                    ; pint, us pint
fluid_ounce                ; fl oz, fl. oz      ; fluid ounce, us fluid ounce, us fl oz, us fl. oz
imperial_gallon            ;                    ; imperial gallon, imperial gal
imperial_quart             ;                    ; imperial quart, imperial qt
imperial_pint              ;                    ; imperial pint
imperial_fluid_ounce       ;                    ; imperial fluid ounce, imperial fl oz, imperial fl. oz
tablespoon                 ; tbsp               ; tablespoon
teaspoon                   ; tsp                ; teaspoon
knot                       ; kn, kts            ; knot
mile_per_hour_             ; mph                ;
kilometer_per_hour_        ; kph, kmh           ;
degree_Celsius             ; °C, degC, deg C    ; degree celsius, celsius, centigrade, degree centigrade, degree c
degree_Celsius             ; ° C                ; ° celsius, ° centigrade
degree_Fahrenheit          ; °F, degF, deg F    ; degree fahrenheit, fahrenheit, degree f
degree_Fahrenheit          ; ° F                ; ° fahrenheit
kelvin                     ; °K, ° K, degK, deg K ; degree kelvin, ° kelvin, degree k
delta_degree_Celsius       ; Δ°C, delta °C, delta degC ;
delta_degree_Fahrenheit    ; Δ°F, delta °F, delta degF ;
coulomb or degree_Celsius  ; C                  ;
farad or degree_Fahrenheit ; F                  ;
angle_degree_              ; °, deg             ; degree
arcminute_                 ; arcmin             ; arcminute, arc minute
arcsecond_                 ; arcsec             ;
kiloohm                    ;                    ; kilohm
megaohm                    ;                    ; megohm
steradian                  ; sr                 ; steradian
turn_                      ; rev                ; revolution, turn, cycle, rotation, beat, breath
turn_per_minute_           ; rpm, RPM, bpm, BPM ;
kilocalorie                ; Cal, Cals          ; food calorie, dietary calorie, kilogram calorie
british_thermal_unit       ; BTU, Btu           ; british thermal unit
international_british_thermal_unit ;            ; international british thermal unit
erg                        ; erg                ; erg
dyne                       ; dyn                ; dyne
pound_force                ; lbf                ; pound-force, pound force
horsepower                 ; hp                 ; horsepower
metric_horsepower          ;                    ; metric horsepower, metric hp
standard_atmosphere        ; atm                ; atmosphere, standard atmosphere
millimeter_Hg or torr      ; mmHg, mm Hg        ; millimeter of mercury, millimetre of mercury, mm mercury
millimeter_Hg or torr      ;                    ; mm of mercury, mm of hg
centimeter_Hg              ; cmHg, cm Hg        ; centimeter of mercury, centimetre of mercury, cm of mercury, cm of hg
centimeter_H2O             ; cmH2O, cm H2O      ; centimeter of water, centimetre of water, cm of h2o
centimeter_H2O or centimeter ;                  ; cm of water, cm water
millimeter_water_          ; mmH2O, mm H2O      ; mm of h2o
millimeter_water_ or millimeter ;               ; mm of water, mm water
inch_Hg                    ; inHg, in Hg        ; inch of mercury, inches of mercury
pound_force_per_square_inch ; psi, lb/in2, lb/in^2, lbs/in2 ; pound per square inch, pounds per square inch
foot_pound                 ; ft-lb, ft lb, ft·lb, ft-lbf, ft lbf, ft·lbf ; foot-pound, foot pound
foot_pound                 ; lb-ft, lb·ft, lb ft, lbf·ft, lbf ft ; pound-foot, pound foot
standard_gravity           ; xg, x g            ; g-force
count_                     ; cts                ; count
count_per_minute_          ; cpm                ;
count_per_second_          ; cps                ;
decay_per_minute_          ; dpm                ;
kilobase_                  ; kb                 ;
megabase_                  ; Mb                 ;
gigabase_                  ; Gb                 ;
kilobyte_                  ; KB                 ;
amino_acid_                ; aa                 ; amino acid
international_unit_        ; iu, IUs            ; unit, enzyme unit
cell_                      ;                    ; cell
copy_                      ;                    ; copy, copies, genome copy, genome copies, gene copy, gene copies
colony_                    ; CFU, CFUs          ; colony forming unit, colony-forming unit, colony, colonies
plaque_                    ; PFU, PFUs          ; plaque forming unit, plaque-forming unit, plaque
virion_                    ;                    ; virion, particle, virus particle, viral particle
particle                   ;                    ; molecule, atom, ion, photon, electron, proton, neutron
body_surface_              ; 1.73m2             ;
percent_                   ; %                  ; percent, per cent, pct
permille_                  ; ‰                  ; permille, per mille, per mil
ppm_ or milligram_per_liter_ ; ppm              ; part per million, parts per million
ppb_                       ; ppb                ; part per billion, parts per billion
decibel_                   ; dB                 ; decibel
"""
"""A unit on each line: its name in pint (with `or` between names for one symbol), symbols, and words."""

_PLURALS: Final = frozenset(("mgs", "mls", "mLs", "kms", "cms", "mms", "gs"))
_APART: Final = lazy_pattern(rf"\A({'|'.join(_PREFIXES.values())})[ -](?=[a-z])")
"""A prefix that is written as a word of its own, as in *kilo meter* and `\\kilo\\metre`."""
_ENGLISH: Final = frozenset(("a", "as", "at", "in", "am", "pm", "no", "per"))


def _entries() -> Iterator[tuple[tuple[str, ...], str, bool]]:
    """Yield the names in pint, a spelling, and whether this is a word (in any case), for each spelling of a unit."""
    for line in _WITH_PREFIXES.strip().splitlines():
        name, symbols, words, prefixes = (part.strip() for part in line.split(";"))
        for prefix in ("", *prefixes.split()):
            full = _PREFIXES.get(prefix, "")
            for symbol in filter(None, symbols.split(", ")):
                if prefix or not symbol.startswith("_"):
                    yield (full + name,), prefix + symbol.removeprefix("_"), False
            for word in filter(None, words.split(", ")):
                yield (full + name,), full + word, True
    for line in _OTHERS.strip().splitlines():
        name, symbols, words = (part.strip() for part in line.split(";"))
        for symbol in filter(None, symbols.split(", ")):
            yield tuple(name.split(" or ")), symbol, False
        for word in filter(None, words.split(", ")):
            yield tuple(name.split(" or ")), word, True


class _Tables(NamedTuple):
    """The names in pint by symbol, by word, and by either in lower case.

    `with_any_prefix` contains, by symbols in lower case, the units that any common prefix makes of a symbol, such as
    the megaliter.
    """

    symbols: dict[str, tuple[str, ...]]
    words: dict[str, tuple[str, ...]]
    any_case: dict[str, set[tuple[str, ...]]]
    with_any_prefix: dict[str, dict[str, tuple[str, ...]]]


@cache
def _tables() -> _Tables:
    """Return the tables of all units, which are made when the first unit is read."""
    tables = _Tables({}, {}, {}, {})
    for names, spelling, is_word in _entries():
        (tables.words if is_word else tables.symbols).setdefault(spelling, names)
        tables.any_case.setdefault(spelling.casefold(), set()).add(names)
    for line in (*_WITH_PREFIXES.strip().splitlines(), "metric_ton ; t", "dalton or molar_dalton_ ; Da"):
        name, listed = (part.strip() for part in line.split(";")[:2])
        for prefix in "fpnumckMGTP":
            for symbol in filter(None, listed.split(", ")):
                spelling = f"{prefix}{symbol.removeprefix('_')}"
                names = tuple(_PREFIXES[prefix] + one for one in name.split(" or "))
                tables.with_any_prefix.setdefault(spelling.casefold(), {})[spelling] = names
    return tables


def find_names(written: str) -> tuple[str, ...]:
    """Return the names in pint for a unit without exponent, such as ("milligram",) for *mg*; empty if it is unknown.
    There are several for a symbol with several meanings, such as C. Case matters for symbols, unless only one unit can
    be meant.

    This also applies to prefixes that this list does not have: *UMOL* is a micromole, but *ML* may be a megaliter.
    """
    symbols, words, any_case, with_any_prefix = _tables()
    if written in symbols:
        return symbols[written]
    if written in ("Calorie", "Calories"):
        return ("kilocalorie",)
    if written in _PLURALS:
        return symbols[written[:-1]]
    word = _APART.sub(r"\1", written.casefold())
    for name in (word, word[:-1] if word.endswith("s") and len(word) > 3 else word, _singular(word)):
        if name in words:
            return words[name]
    readings = with_any_prefix.get(word, {})
    same_symbol = {spelling for spelling in readings if spelling[1:] == written[1:]}
    if same_symbol and written[:1] in ("g", "t") and written not in readings:  # gK is g K, not GK
        return ()
    if len(same_symbol) == 1 and (written in readings or not written.isupper()):
        return symbols.get(same_symbol.pop(), ())
    units = any_case.get(word, set()).union(readings.values())
    return next(iter(units)) if len(units) == 1 and len(word) > 1 else ()


def find_symbol(written: str) -> tuple[str, ...]:
    """Return the names in pint for a symbol that is written in its own case; empty if it is unknown."""
    return _tables().symbols.get(written, ())


def is_english(word: str) -> bool:
    """Return whether a symbol is also an English word, so that it is a unit only directly after a number."""
    return word.casefold() in _ENGLISH


def all_names() -> frozenset[str]:
    """Return all names that are looked up in pint."""
    tables = _tables()
    return frozenset(name for names in (*tables.symbols.values(), *tables.words.values()) for name in names)


def _singular(words: str) -> str:
    """Return *degree celsius* for *degrees celsius*: the first of several words without its plural s."""
    first, space, rest = words.partition(" ")
    return f"{first.removesuffix('s')}{space}{rest}"
