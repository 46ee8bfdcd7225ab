"""CEL's standard library: operators, conversions, optionals, regular expressions."""
