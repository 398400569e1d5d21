"""Users' files: tables, arrays and images to ids, class numbers and inputs, by one set of rules."""
