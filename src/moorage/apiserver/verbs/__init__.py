"""What is done with objects: get, list, watch, create, update, delete and the sub-resources."""
