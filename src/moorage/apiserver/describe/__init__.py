"""What the API server says about itself: discovery, OpenAPI, version, health."""
