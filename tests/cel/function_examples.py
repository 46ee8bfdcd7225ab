"""Every operator, macro and function of the Kubernetes environment, each with an example that the tests evaluate."""

from __future__ import annotations

from tests.cel.extension_examples import LISTS, SETS, STRINGS
from tests.cel.kubernetes_examples import CIDR, FORMATS, IP, KUBERNETES_LISTS, QUANTITIES, REGEX, SEMVER, URLS
from tests.cel.language_examples import MACROS, OPERATORS, OPTIONALS, STANDARD, TWO_VARIABLES

EXAMPLES = [
    *OPERATORS,
    *MACROS,
    *TWO_VARIABLES,
    *STANDARD,
    *OPTIONALS,
    *STRINGS,
    *LISTS,
    *KUBERNETES_LISTS,
    *SETS,
    *URLS,
    *REGEX,
    *QUANTITIES,
    *IP,
    *CIDR,
    *FORMATS,
    *SEMVER,
]
