"""The functions that Kubernetes adds, each with an example."""

from __future__ import annotations

from tests.cel.example import rows

KUBERNETES_LISTS = rows(
    "Kubernetes lists",
    ("list(T).isSorted() -> bool", "whether the elements are in ascending order", "[1, 2, 2].isSorted()", "true"),
    ("list(T).sum() -> T", "the sum of numbers or durations", "[1, 2, 3].sum()", "6"),
    ("list(T).min() -> T", "the least element; an error for an empty list", "[3, 1, 2].min()", "1"),
    ("list(T).max() -> T", "the greatest element; an error for an empty list", "['a', 'c', 'b'].max()", "'c'"),
    ("list(T).indexOf(T) -> int", "the first position of an element, -1 if nowhere", "[1, 2, 2].indexOf(2)", "1"),
    (
        "list(T).lastIndexOf(T) -> int",
        "the last position of an element, -1 if nowhere",
        "[1, 2, 2].lastIndexOf(2)",
        "2",
    ),
)

URLS = rows(
    "url",
    (
        "url(string) -> URL",
        "an absolute URL or path; an error for anything else",
        "url('https://a.example:80/b').getHost()",
        "'a.example:80'",
    ),
    ("isURL(string) -> bool", "whether `url` accepts it", "isURL('not a url')", "false"),
    (
        "URL.getScheme() -> string",
        "scheme in lower case, empty for a path",
        "url('https://a.example/').getScheme()",
        "'https'",
    ),
    ("URL.getHost() -> string", "host and port", "url('https://[::1]:80/').getHost()", "'[::1]:80'"),
    (
        "URL.getHostname() -> string",
        "host without brackets and port",
        "url('https://[::1]:80/').getHostname()",
        "'::1'",
    ),
    ("URL.getPort() -> string", "port, empty if there is none", "url('https://a.example:80/').getPort()", "'80'"),
    (
        "URL.getEscapedPath() -> string",
        "path, escaped",
        "url('https://a.example/with space').getEscapedPath()",
        "'/with%20space'",
    ),
    (
        "URL.getQuery() -> map(string, list(string))",
        "parameters, each with all its values",
        "url('/?k=a&k=b').getQuery()",
        "{'k': ['a', 'b']}",
    ),
)

REGEX = rows(
    "regex",
    (
        "string.find(string) -> string",
        "the first match of a regular expression, empty if there is none",
        "'abc 123'.find('[0-9]+')",
        "'123'",
    ),
    ("string.findAll(string) -> list(string)", "all matches", "'1 a 2'.findAll('[0-9]')", "['1', '2']"),
    (
        "string.findAll(string, int) -> list(string)",
        "at most so many matches; all when negative",
        "'1 a 2'.findAll('[0-9]', 1)",
        "['1']",
    ),
)

QUANTITIES = rows(
    "quantity",
    (
        "quantity(string) -> Quantity",
        "a resource quantity; an error for anything else",
        "quantity('1Gi') == quantity('1024Mi')",
        "true",
    ),
    ("isQuantity(string) -> bool", "whether `quantity` accepts it", "isQuantity('200K')", "false"),
    ("sign(Quantity) -> int", "-1, 0 or 1", "sign(quantity('-2k'))", "-1"),
    ("Quantity.isInteger() -> bool", "whether `asInteger` gives a number", "quantity('1.5').isInteger()", "false"),
    (
        "Quantity.asInteger() -> int",
        "the number; an error when it is not whole or too large",
        "quantity('50k').asInteger()",
        "50000",
    ),
    (
        "Quantity.asApproximateFloat() -> double",
        "the number, perhaps rounded",
        "quantity('500m').asApproximateFloat()",
        "0.5",
    ),
    ("Quantity.add(Quantity) -> Quantity", "sum", "quantity('50k').add(quantity('20k'))", "quantity('70k')"),
    ("Quantity.sub(Quantity) -> Quantity", "difference", "quantity('50k').sub(quantity('20k'))", "quantity('30k')"),
    ("Quantity.add(int) -> Quantity", "sum with an integer", "quantity('50k').add(20)", "quantity('50020')"),
    ("Quantity.sub(int) -> Quantity", "difference from an integer", "quantity('50k').sub(20000)", "quantity('30k')"),
    ("Quantity.isLessThan(Quantity) -> bool", "less", "quantity('50M').isLessThan(quantity('50Mi'))", "true"),
    (
        "Quantity.isGreaterThan(Quantity) -> bool",
        "greater",
        "quantity('10Gi').isGreaterThan(quantity('200Mi'))",
        "true",
    ),
    (
        "Quantity.compareTo(Quantity) -> int",
        "-1 when less, 0 when equal, 1 when greater",
        "quantity('200M').compareTo(quantity('0.2G'))",
        "0",
    ),
)

IP = rows(
    "ip",
    (
        "ip(string) -> net.IP",
        "an IPv4 or IPv6 address; an error for anything else",
        "ip('::1') == ip('0:0:0:0:0:0:0:1')",
        "true",
    ),
    (
        "isIP(string) -> bool",
        "whether `ip` accepts it: no zone, no IPv4 in IPv6 form, no leading zeros",
        "isIP('127.0.0.01')",
        "false",
    ),
    (
        "ip.isCanonical(string) -> bool",
        "whether the address is written in the usual way",
        "ip.isCanonical('2001:DB8::1')",
        "false",
    ),
    ("net.IP.family() -> int", "4 or 6", "ip('::1').family()", "6"),
    ("net.IP.isUnspecified() -> bool", "0.0.0.0 or ::", "ip('0.0.0.0').isUnspecified()", "true"),
    ("net.IP.isLoopback() -> bool", "127.0.0.0/8 or ::1", "ip('127.0.0.1').isLoopback()", "true"),
    (
        "net.IP.isLinkLocalMulticast() -> bool",
        "224.0.0.0/24, or ff02::/16 and its like",
        "ip('224.0.0.1').isLinkLocalMulticast()",
        "true",
    ),
    (
        "net.IP.isLinkLocalUnicast() -> bool",
        "169.254.0.0/16 or fe80::/10",
        "ip('fe80::1').isLinkLocalUnicast()",
        "true",
    ),
    (
        "net.IP.isGlobalUnicast() -> bool",
        "none of the above, no multicast, no broadcast; private addresses count",
        "ip('192.168.0.1').isGlobalUnicast()",
        "true",
    ),
    ("string(net.IP) -> string", "the address in the usual form", "string(ip('2001:DB8:0:0::1'))", "'2001:db8::1'"),
)

CIDR = rows(
    "cidr",
    ("cidr(string) -> net.CIDR", "a network; an error for anything else", "cidr('10.0.0.0/8').prefixLength()", "8"),
    ("isCIDR(string) -> bool", "whether `cidr` accepts it", "isCIDR('10.0.0.0/33')", "false"),
    (
        "net.CIDR.containsIP(string | net.IP) -> bool",
        "whether the address is in the network",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "true",
    ),
    (
        "net.CIDR.containsCIDR(string | net.CIDR) -> bool",
        "whether the whole of a network is in it",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
        "true",
    ),
    ("net.CIDR.ip() -> net.IP", "the address that it was written with", "cidr('10.1.2.3/8').ip()", "ip('10.1.2.3')"),
    (
        "net.CIDR.masked() -> net.CIDR",
        "the same network with all other bits zero",
        "cidr('10.1.2.3/8').masked()",
        "cidr('10.0.0.0/8')",
    ),
    ("net.CIDR.prefixLength() -> int", "how many bits the network has", "cidr('::/48').prefixLength()", "48"),
    ("string(net.CIDR) -> string", "the network in the usual form", "string(cidr('10.0.0.0/8'))", "'10.0.0.0/8'"),
)

FORMATS = rows(
    "format",
    (
        "format.named(string) -> optional(Format)",
        "the format of that name, if there is one",
        "format.named('uuid').hasValue()",
        "true",
    ),
    (
        "Format.validate(string) -> optional(list(string))",
        "what is wrong with a text, empty if nothing",
        "format.uuid().validate('x').value()",
        "['does not match the UUID format']",
    ),
    ("format.dns1123Label() -> Format", "a DNS label", "format.dns1123Label().validate('my-name').hasValue()", "false"),
    (
        "format.dns1123Subdomain() -> Format",
        "a DNS name",
        "format.dns1123Subdomain().validate('apps.k8s.io').hasValue()",
        "false",
    ),
    (
        "format.dns1035Label() -> Format",
        "a DNS label that begins with a letter",
        "format.dns1035Label().validate('1a').hasValue()",
        "true",
    ),
    (
        "format.qualifiedName() -> Format",
        "a label key",
        "format.qualifiedName().validate('example.com/MyName').hasValue()",
        "false",
    ),
    (
        "format.dns1123LabelPrefix() -> Format",
        "the beginning of a DNS label: it may end in a dash",
        "format.dns1123LabelPrefix().validate('pre-').hasValue()",
        "false",
    ),
    (
        "format.dns1123SubdomainPrefix() -> Format",
        "the beginning of a DNS name",
        "format.dns1123SubdomainPrefix().validate('a.pre-').hasValue()",
        "false",
    ),
    (
        "format.dns1035LabelPrefix() -> Format",
        "the beginning of a DNS label that begins with a letter",
        "format.dns1035LabelPrefix().validate('pre-').hasValue()",
        "false",
    ),
    ("format.labelValue() -> Format", "a label value", "format.labelValue().validate('-x').hasValue()", "true"),
    (
        "format.uri() -> Format",
        "what `url` accepts",
        "format.uri().validate('x').value()",
        "['parse \"x\": invalid URI for request']",
    ),
    (
        "format.uuid() -> Format",
        "a UUID, with or without dashes",
        "format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "false",
    ),
    ("format.byte() -> Format", "Base64", "format.byte().validate('aGVsbG8=').hasValue()", "false"),
    ("format.date() -> Format", "a date", "format.date().validate('2026-02-29').value()", "['invalid date']"),
    (
        "format.datetime() -> Format",
        "a date and time",
        "format.datetime().validate('2026-01-01T00:00:00Z').hasValue()",
        "false",
    ),
)

SEMVER = rows(
    "semver",
    (
        "semver(string) -> Semver",
        "a complete semantic version; an error for anything else",
        "semver('1.2.3').minor()",
        "2",
    ),
    (
        "semver(string, bool) -> Semver",
        "when true, a leading v, leading zeros and missing numbers are allowed",
        "semver('v1.02', true)",
        "semver('1.2.0')",
    ),
    ("isSemver(string) -> bool", "whether `semver` accepts it", "isSemver('v1.0')", "false"),
    (
        "isSemver(string, bool) -> bool",
        "whether `semver` accepts it with the same second argument",
        "isSemver('v1.0', true)",
        "true",
    ),
    ("Semver.major() -> int", "the first number", "semver('1.2.3').major()", "1"),
    ("Semver.minor() -> int", "the second number", "semver('1.2.3').minor()", "2"),
    ("Semver.patch() -> int", "the third number", "semver('1.2.3').patch()", "3"),
    (
        "Semver.isLessThan(Semver) -> bool",
        "lower precedence: a pre-release is below its release",
        "semver('1.2.3-rc.1').isLessThan(semver('1.2.3'))",
        "true",
    ),
    (
        "Semver.isGreaterThan(Semver) -> bool",
        "higher precedence",
        "semver('1.10.0').isGreaterThan(semver('1.9.0'))",
        "true",
    ),
    (
        "Semver.compareTo(Semver) -> int",
        "-1 when lower, 0 when equal, 1 when higher; build metadata does not count",
        "semver('1.0.0+a').compareTo(semver('1.0.0+b'))",
        "0",
    ),
    (
        "semver.compare(string, string) -> bool",
        "whether a version fits a constraint: comparisons joined by spaces (and) and || (or), `x` for any number",
        "semver.compare('v3.27.2', '>=3.25.0 <4.0.0 || 5.x')",
        "true",
    ),
)
