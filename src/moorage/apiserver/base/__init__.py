"""What every part of the API server uses: users, stored objects, offloading to a thread."""
