"""What every part of the API server needs: users, stored objects, work that is offloaded to a thread."""
