"""From what pages say to what browsers show: texts, drawings, templates."""
