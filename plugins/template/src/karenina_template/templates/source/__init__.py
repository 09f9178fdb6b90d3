"""From the source of a template to the template: declarations are read and rebuilt, trusted code is executed."""
