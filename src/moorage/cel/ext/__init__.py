"""The extension libraries, one module each: declarations, implementations, cost."""
